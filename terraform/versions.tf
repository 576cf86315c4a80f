# 1.9 brought validations that look at other variables; direct VPC egress for functions needs provider 7.21 or newer.
terraform {
  required_version = ">= 1.9"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 8.7"
    }
  }

  # Where the state lives is said at `terraform init -backend-config=...`: README.md.
  backend "gcs" {}
}

provider "google" {
  project = var.project
  region  = var.region

  default_labels = { tpufn = var.name }
}
