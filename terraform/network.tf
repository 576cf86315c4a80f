# The network of the TPUs: an existing one, or one of our own. In an existing one nothing is changed but for SSH.

locals {
  own_network          = length(var.subnet_ranges) > 0
  network              = local.own_network ? module.network[0].name : var.network
  functions_subnetwork = local.own_network ? module.network[0].subnetworks[var.region] : var.functions_subnetwork

  # People reach private TPUs through IAP (its addresses are fixed), functions from their own subnetwork.
  ssh_sources = concat(
    local.private ? ["35.235.240.0/20"] : [],
    local.private && local.own_network ? [var.subnet_ranges[var.region]] : [],
    var.ssh_source_ranges,
  )
}

module "network" {
  source = "./modules/network"
  count  = local.own_network ? 1 : 0

  project = var.project
  name    = local.prefix
  ranges  = var.subnet_ranges
  nat     = var.nat

  depends_on = [google_project_service.api]
}

# For every machine of the network: TPUs have no tag of ours. IAP lets nobody through without its own role.
resource "google_compute_firewall" "ssh" {
  count = length(local.ssh_sources) > 0 ? 1 : 0

  project       = var.project
  name          = "${local.prefix}-ssh"
  description   = "tpufn: SSH to workers"
  network       = local.network
  direction     = "INGRESS"
  source_ranges = local.ssh_sources

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }

  depends_on = [google_project_service.api]
}
