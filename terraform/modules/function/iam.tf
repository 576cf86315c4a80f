# What it takes to be called. What the function itself may do is in iam.tf of the root.

resource "google_cloud_run_v2_service_iam_member" "invoker" {
  project  = var.project
  location = var.region
  name     = local.service
  role     = "roles/run.invoker"
  member   = google_service_account.invoker.member
}

# Pub/Sub signs its calls as the invoker.
resource "google_service_account_iam_member" "push_tokens" {
  service_account_id = google_service_account.invoker.name
  role               = "roles/iam.serviceAccountTokenCreator"
  member             = var.pubsub_agent
}

# A subscription hands over to the dead letters as Pub/Sub, which has to acknowledge the message here.
resource "google_pubsub_subscription_iam_member" "dead_letters" {
  for_each = google_pubsub_subscription.push

  project      = var.project
  subscription = each.value.name
  role         = "roles/pubsub.subscriber"
  member       = var.pubsub_agent
}

# Eventarc looks for this role on the project only.
resource "google_project_iam_member" "events" {
  for_each = toset(length(var.settings.documents) == 0 ? [] : ["roles/eventarc.eventReceiver"])

  project = var.project
  role    = each.value
  member  = google_service_account.invoker.member
}
