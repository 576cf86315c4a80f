variable "project" {
  description = "The project's id."
  type        = string
}

variable "name" {
  description = "The name of the network and of each subnetwork."
  type        = string
}

variable "ranges" {
  description = "The subnetworks: {region = CIDR}."
  type        = map(string)
}

variable "nat" {
  description = "Whether machines without a public address reach the internet."
  type        = bool
}
