output "name" {
  description = "The network's name."
  value       = google_compute_network.this.name
}

output "subnetworks" {
  description = "The subnetworks' names by region."
  value       = { for region, subnetwork in google_compute_subnetwork.this : region => subnetwork.name }
}
