# A network with one subnetwork in each region. Workers of a slice talk to each other, and private ones to Google's APIs.

resource "google_compute_network" "this" {
  project                 = var.project
  name                    = var.name
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "this" {
  for_each = var.ranges

  project                  = var.project
  region                   = each.key
  name                     = var.name # the same in each region: a pool's zone says which
  network                  = google_compute_network.this.id
  ip_cidr_range            = each.value
  private_ip_google_access = true
}

resource "google_compute_firewall" "internal" {
  project       = var.project
  name          = "${var.name}-internal"
  description   = "tpufn: workers among themselves"
  network       = google_compute_network.this.id
  direction     = "INGRESS"
  source_ranges = values(var.ranges)

  allow {
    protocol = "tcp"
  }
  allow {
    protocol = "udp"
  }
  allow {
    protocol = "icmp"
  }
}

resource "google_compute_router" "nat" {
  for_each = var.nat ? var.ranges : {}

  project = var.project
  region  = each.key
  name    = "${var.name}-nat"
  network = google_compute_network.this.id
}

resource "google_compute_router_nat" "this" {
  for_each = google_compute_router.nat

  project                            = var.project
  region                             = each.value.region
  router                             = each.value.name
  name                               = each.value.name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"
}
