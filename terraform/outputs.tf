output "functions" {
  description = "Where each function is called, and as whom it runs."
  value       = { for name, function in module.function : name => { uri = function.uri, account = google_service_account.function[name].email } }
}

output "topics" {
  description = "The topics' full names by their short ones."
  value       = { for name, topic in module.topic : name => topic.id }
}

output "dead_letters" {
  description = "The subscription that holds what could not be delivered."
  value       = google_pubsub_subscription.dead_letters.id
}

output "ticks" {
  description = "The jobs of Cloud Scheduler that `tpufn pause` and `resume` are about."
  value       = { region = var.region, jobs = [for job in google_cloud_scheduler_job.tick : job.name] }
}

output "database" {
  description = "The Firestore database."
  value       = local.database
}

output "bucket" {
  description = "The deployment's own bucket."
  value       = google_storage_bucket.own.name
}

output "worker_account" {
  description = "The account of the TPU workers."
  value       = google_service_account.worker.email
}

output "ssh_secret" {
  description = "The secret that the SSH key belongs into."
  value       = google_secret_manager_secret.ssh_key.secret_id
}

output "network" {
  description = "What `network` and `subnetwork` in deployment.yaml have to say for an own network."
  value       = { network = local.network, subnetwork = local.own_network ? local.prefix : null }
}
