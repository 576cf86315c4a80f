output "id" {
  description = "projects/PROJECT/topics/NAME"
  value       = google_pubsub_topic.this.id
}
