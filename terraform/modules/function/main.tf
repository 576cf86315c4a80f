# A function, its source, and everything that may wake it: documents by Eventarc, messages by push. Both come as an
# account of their own, the invoker, which can do nothing but call this function.

locals {
  cloud_name   = "${var.prefix}-${replace(var.name, "_", "-")}"
  service      = basename(google_cloudfunctions2_function.this.service_config[0].service)
  uri          = google_cloudfunctions2_function.this.service_config[0].uri
  ack_deadline = min(600, var.settings.timeout + 30)
  trigger      = "google.cloud.firestore.document.v1.written"

  # A function has one trigger of its own; the others are made beside it.
  first_document  = slice(var.settings.documents, 0, min(1, length(var.settings.documents)))
  other_documents = slice(var.settings.documents, min(1, length(var.settings.documents)), length(var.settings.documents))
}

resource "google_service_account" "invoker" {
  project      = var.project
  account_id   = "${var.account_stem}-${var.settings.code}-in"
  display_name = "tpufn: calls function ${var.name} of ${var.prefix}"
}

# Named by content: a changed source is a new object and so a new revision; an unchanged one is neither.
resource "google_storage_bucket_object" "archive" {
  bucket       = var.bucket
  name         = "archives/${var.name}-${filesha256(var.archive)}.zip"
  source       = var.archive
  content_type = "application/zip"

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_cloudfunctions2_function" "this" {
  project     = var.project
  location    = var.region
  name        = local.cloud_name
  description = "tpufn ${var.name}"

  build_config {
    runtime           = var.runtime
    entry_point       = var.name
    service_account   = var.build_account
    docker_repository = var.repository

    source {
      storage_source {
        bucket = google_storage_bucket_object.archive.bucket
        object = google_storage_bucket_object.archive.name
      }
    }
  }

  service_config {
    service_account_email            = var.account
    available_memory                 = var.settings.memory
    available_cpu                    = var.settings.cpu
    max_instance_count               = var.settings.instances
    max_instance_request_concurrency = var.settings.concurrency
    timeout_seconds                  = var.settings.timeout
    ingress_settings                 = "ALLOW_INTERNAL_ONLY" # Pub/Sub and Eventarc of this project count as internal
    all_traffic_on_latest_revision   = true

    environment_variables = merge(var.environment, {
      THREADS = tostring(var.settings.concurrency) # the server's own default does not follow the concurrency
    })

    direct_vpc_egress = var.vpc == null ? null : "VPC_EGRESS_PRIVATE_RANGES_ONLY"

    dynamic "direct_vpc_network_interface" {
      for_each = var.vpc == null ? [] : [var.vpc]
      content {
        network    = direct_vpc_network_interface.value.network
        subnetwork = direct_vpc_network_interface.value.subnetwork
      }
    }
  }

  dynamic "event_trigger" {
    for_each = local.first_document
    content {
      event_type            = local.trigger
      trigger_region        = var.database_location
      retry_policy          = "RETRY_POLICY_RETRY"
      service_account_email = google_service_account.invoker.email

      event_filters {
        attribute = "database"
        value     = var.database
      }
      event_filters {
        attribute = "document"
        value     = event_trigger.value
        operator  = "match-path-pattern"
      }
    }
  }

  # Its deliveries begin at once: without this role the first ones would fail.
  depends_on = [google_project_iam_member.events]
}

# Triggers that are not the function's own retry unless they are told not to.
resource "google_eventarc_trigger" "document" {
  for_each = { for path in local.other_documents : split("/", path)[0] => path }

  project                 = var.project
  location                = var.database_location
  name                    = "${local.cloud_name}-${each.key}"
  service_account         = google_service_account.invoker.email
  event_data_content_type = "application/protobuf"

  matching_criteria {
    attribute = "type"
    value     = local.trigger
  }
  matching_criteria {
    attribute = "database"
    value     = var.database
  }
  matching_criteria {
    attribute = "document"
    value     = each.value
    operator  = "match-path-pattern"
  }

  destination {
    cloud_run_service {
      service = local.service
      region  = var.region
    }
  }

  depends_on = [google_project_iam_member.events, google_cloud_run_v2_service_iam_member.invoker]
}

resource "google_pubsub_subscription" "push" {
  for_each = var.subscriptions

  project = var.project
  name    = "${local.cloud_name}-${each.key}"
  topic   = each.value.topic
  filter  = each.value.filter == "" ? null : each.value.filter

  ack_deadline_seconds       = local.ack_deadline
  message_retention_duration = "${each.value.retention}s"

  push_config {
    # The server takes the message's topic from the path.
    push_endpoint = "${local.uri}/${each.value.topic}"

    oidc_token {
      service_account_email = google_service_account.invoker.email
      audience              = local.uri
    }
  }

  retry_policy {
    minimum_backoff = "10s"
    maximum_backoff = "${each.value.backoff}s"
  }

  dead_letter_policy {
    dead_letter_topic     = var.dead_letters
    max_delivery_attempts = each.value.attempts
  }

  expiration_policy {
    ttl = "" # never, however long nothing comes
  }

  depends_on = [google_cloud_run_v2_service_iam_member.invoker, google_service_account_iam_member.push_tokens]
}
