variable "project" {
  description = "The project's id."
  type        = string
}

variable "region" {
  description = "Where the function runs."
  type        = string
}

variable "prefix" {
  description = "tpufn-NAME: the start of every cloud name."
  type        = string
}

variable "account_stem" {
  description = "The same, short enough for account ids."
  type        = string
}

variable "name" {
  description = "The function's name in the code: also its entry point."
  type        = string
}

variable "account" {
  description = "The account that it runs as."
  type        = string
}

variable "settings" {
  description = "The function's row in the table of main.tf."
  type = object({
    code        = string
    memory      = string
    cpu         = string
    concurrency = number
    instances   = number
    timeout     = number
    documents   = list(string)
  })

  validation {
    condition     = length(var.settings.code) <= 7
    error_message = "The code is part of account ids, which have at most 30 characters."
  }
  validation {
    condition     = var.settings.concurrency == 1 || tonumber(var.settings.cpu) >= 1
    error_message = "More than one event at once needs a whole cpu."
  }
  validation {
    condition     = var.settings.timeout <= 540
    error_message = "Event-driven functions run 540 s at most."
  }
}

variable "runtime" {
  description = "The language runtime."
  type        = string
}

variable "archive" {
  description = "The path of the source archive."
  type        = string
}

variable "bucket" {
  description = "The bucket that the archive is put into."
  type        = string
}

variable "repository" {
  description = "The full name of the repository for the built image."
  type        = string
}

variable "build_account" {
  description = "The full name of the account that builds."
  type        = string
}

variable "pubsub_agent" {
  description = "The member that is Pub/Sub itself in this project."
  type        = string
}

variable "environment" {
  description = "The function's environment."
  type        = map(string)
}

variable "database" {
  description = "The database whose documents wake it."
  type        = string
}

variable "database_location" {
  description = "The database's location: triggers live there."
  type        = string
}

variable "subscriptions" {
  description = "What wakes it over Pub/Sub: {topic's short name = how}."
  type = map(object({
    topic     = string
    filter    = string
    retention = number
    attempts  = number
    backoff   = number
  }))
}

variable "dead_letters" {
  description = "The topic of dead letters."
  type        = string
}

variable "vpc" {
  description = "The network and subnetwork that it reaches private addresses through; null for none."
  type        = object({ network = string, subnetwork = string })
  default     = null
}
