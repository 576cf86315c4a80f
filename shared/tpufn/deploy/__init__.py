"""From a deployment file to a running system in a project, and back. Terraform is the truth; this only feeds it."""
