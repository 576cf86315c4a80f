# Documents, files, images, secrets.

locals {
  indexes_file = coalesce(var.indexes_file, "${path.module}/../shared/tpufn/adapters/firestore_indexes.json")
  indexes      = jsondecode(file(local.indexes_file))
}

resource "google_firestore_database" "this" {
  count = var.database == "" ? 1 : 0

  project                 = var.project
  name                    = local.database
  location_id             = var.database_location
  type                    = "FIRESTORE_NATIVE"
  delete_protection_state = var.delete_protection ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"
  deletion_policy         = var.delete_protection ? "ABANDON" : "DELETE"

  depends_on = [google_project_service.api]
}

# Keyed by what they index: a change of the list touches only what it changes.
resource "google_firestore_index" "composite" {
  for_each = {
    for index in local.indexes.indexes : join(" ", concat(
      [index.collectionGroup, index.queryScope],
      [for field in index.fields : "${field.fieldPath}:${try(field.order, field.arrayConfig)}"],
    )) => index
  }

  project     = var.project
  database    = local.database
  collection  = each.value.collectionGroup
  query_scope = each.value.queryScope

  dynamic "fields" {
    for_each = each.value.fields
    content {
      field_path   = fields.value.fieldPath
      order        = try(fields.value.order, null)
      array_config = try(fields.value.arrayConfig, null)
    }
  }

  depends_on = [google_firestore_database.this]
}

# What is never asked for is in no index (a write costs its indexes), and what has a `ttl` is deleted by Firestore.
resource "google_firestore_field" "override" {
  for_each = { for field in local.indexes.fieldOverrides : "${field.collectionGroup}.${field.fieldPath}" => field }

  project    = var.project
  database   = local.database
  collection = each.value.collectionGroup
  field      = each.value.fieldPath

  index_config {
    dynamic "indexes" {
      for_each = each.value.indexes
      content {
        query_scope  = indexes.value.queryScope
        order        = try(indexes.value.order, null)
        array_config = try(indexes.value.arrayConfig, null)
      }
    }
  }

  dynamic "ttl_config" {
    for_each = try(each.value.ttl, false) ? [true] : []
    content {}
  }

  depends_on = [google_firestore_database.this]
}

# The deployment's own bucket: sources, host keys of workers, submissions that are too large for a message.
resource "google_storage_bucket" "own" {
  project  = var.project
  name     = local.bucket
  location = var.region

  uniform_bucket_level_access = true # conditions on objects' names need it
  public_access_prevention    = "enforced"
  force_destroy               = !var.delete_protection

  versioning {
    enabled = false # everything in it is named by content, or written once
  }
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  # Terraform deletes a source when a newer one replaces it; this is for what was left behind.
  lifecycle_rule {
    condition {
      age            = 365
      matches_prefix = ["archives/"]
    }
    action {
      type = "Delete"
    }
  }
  lifecycle_rule {
    condition {
      age            = 30
      matches_prefix = ["hostkeys/", "submissions/"]
    }
    action {
      type = "Delete"
    }
  }

  depends_on = [google_project_service.api]
}

resource "google_artifact_registry_repository" "images" {
  project       = var.project
  location      = var.region
  repository_id = local.prefix
  format        = "DOCKER"
  description   = "Images of the functions"

  cleanup_policies {
    id     = "keep-recent"
    action = "KEEP"
    most_recent_versions {
      keep_count = 3
    }
  }
  cleanup_policies {
    id     = "delete-old"
    action = "DELETE"
    condition {
      older_than = "2592000s"
    }
  }

  depends_on = [google_project_service.api]
}

# Without a version: `tpufn deploy` makes the key and puts it here, so that it is in no state file.
resource "google_secret_manager_secret" "ssh_key" {
  project   = var.project
  secret_id = "${local.prefix}-ssh-key"

  replication {
    auto {}
  }

  depends_on = [google_project_service.api]
}
