# A topic, and who may publish to it. Nobody else may: neither project-wide nor by an inherited role of ours.

resource "google_pubsub_topic" "this" {
  project = var.project
  name    = var.name
}

resource "google_pubsub_topic_iam_member" "publisher" {
  for_each = var.publishers

  project = var.project
  topic   = google_pubsub_topic.this.id
  role    = "roles/pubsub.publisher"
  member  = each.value
}
