variable "project" {
  description = "The project's id."
  type        = string
}

variable "name" {
  description = "The topic's full name."
  type        = string
}

variable "publishers" {
  description = "Who may publish: {key = member}. The keys are known before anything is made, members need not be."
  type        = map(string)
  default     = {}
}
