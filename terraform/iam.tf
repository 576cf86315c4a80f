# Who may do what. The table in README.md says the same with the reasons, and a test compares them.
# Bindings are additive (`_iam_member`): what others granted in the project stays as it is.

locals {
  # Operators may what submitters may, and these what viewers may. Nobody gets the same role twice.
  viewing    = setunion(var.viewers, var.submitters, var.operators)
  submitting = setunion(var.submitters, var.operators)
  operating  = toset(var.operators)

  # Firestore has no IAM per document: whoever reads or writes in a database may do so in all of it.
  in_database = {
    title      = "only-${local.database}"
    expression = "resource.name == \"projects/${var.project}/databases/${local.database}\""
  }

  # ---- topics: who publishes where -----------------------------------------------------------------------------------
  members = merge(
    { for name, account in google_service_account.function : name => account.member },
    { worker = google_service_account.worker.member },
    { for person in local.viewing : person => person },
  )
  publishers = merge(
    { for name in keys(local.functions) : name => ["wakes", "notices", "dead-letters"] },
    { worker = ["worker-events", "preemptions", "worker-ready"] },
    { for person in local.submitting : person => ["submissions", "commands"] },
    { for person in local.operating : person => keys(local.topics) }, # to replay dead letters
  )

  # ---- buckets: who may what below which prefixes --------------------------------------------------------------------
  # A condition on objects' names cannot allow a listing, which is about the bucket: that is a role of its own.
  file_readers = merge(
    { for name, function in local.functions : name => google_service_account.function[name].member if function.files != "" },
    { for person in local.viewing : person => person },
  )
  job_files = merge(
    { for who, member in local.file_readers : "${who} reads" => {
      member = member, role = "roles/storage.objectViewer", prefixes = ["jobs/"]
    } },
    { for name, function in local.functions : "${name} writes" => {
      member = google_service_account.function[name].member, role = "roles/storage.objectCreator", prefixes = ["jobs/"]
    } if function.files == "write" },
    { for person in local.submitting : "${person} uploads" => {
      member = person, role = "roles/storage.objectCreator", prefixes = ["bundles/"]
    } },
    { "worker writes" = {
      member   = google_service_account.worker.member, role = "roles/storage.objectUser",
      prefixes = concat(["jobs/"], var.writable_prefixes)
    } },
  )
  own_files = merge(
    { for name, function in local.functions : "${name} pins host keys" => {
      member = google_service_account.function[name].member, role = "roles/storage.objectUser", prefix = "hostkeys/"
    } if function.ssh },
    { for person in local.submitting : "${person} uploads" => {
      member = person, role = "roles/storage.objectCreator", prefix = "submissions/"
    } },
    {
      "submit reads" = {
        member = google_service_account.function["submit"].member, role = "roles/storage.objectViewer", prefix = "submissions/"
      }
      "build reads" = {
        member = google_service_account.build.member, role = "roles/storage.objectViewer", prefix = "archives/"
      }
    },
  )
}

# ---- functions -----------------------------------------------------------------------------------------------------

resource "google_service_account" "function" {
  for_each = local.functions

  project      = var.project
  account_id   = "${local.account_stem}-${each.value.code}"
  display_name = "tpufn: function ${each.key} of ${local.prefix}"
}

resource "google_project_iam_member" "store" {
  for_each = local.functions

  project = var.project
  role    = each.key == "notify" ? "roles/datastore.viewer" : "roles/datastore.user"
  member  = google_service_account.function[each.key].member

  condition {
    title      = local.in_database.title
    expression = local.in_database.expression
  }
}

# The Cloud TPU API has no roles below the project's.
resource "google_project_iam_member" "tpu" {
  for_each = { for name, function in local.functions : name => function.tpu if function.tpu != "" }

  project = var.project
  role    = "roles/tpu.${each.value}"
  member  = google_service_account.function[each.key].member
}

# To let the runner's key into TPUs that were there before: of all that one can do to a node, its metadata alone. There
# is no permission for less than an update, and no role with nothing but that.
resource "google_project_iam_custom_role" "admission" {
  count = var.existing_tpus ? 1 : 0

  project     = var.project
  role_id     = "${replace(local.prefix, "-", "_")}_admission"
  title       = "${local.prefix}: let the runner into existing TPUs"
  description = "Change nodes of Cloud TPU."
  permissions = ["tpu.nodes.update"]
}

resource "google_project_iam_member" "admission" {
  count = var.existing_tpus ? 1 : 0

  project = var.project
  role    = google_project_iam_custom_role.admission[0].name
  member  = google_service_account.function["autoscale"].member
}

# To make TPUs that run as the workers' account.
resource "google_service_account_iam_member" "worker_user" {
  for_each = { for name, function in local.functions : name => function if function.tpu == "admin" }

  service_account_id = google_service_account.worker.name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.function[each.key].member
}

# Two roles: reading a version, and seeing which ones are in force while the key is being replaced.
resource "google_secret_manager_secret_iam_member" "ssh_key" {
  for_each = {
    for pair in setproduct(
      [for name, function in local.functions : name if function.key],
      ["roles/secretmanager.secretAccessor", "roles/secretmanager.viewer"],
    ) : "${pair[0]} ${pair[1]}" => pair
  }

  project   = var.project
  secret_id = google_secret_manager_secret.ssh_key.secret_id
  role      = each.value[1]
  member    = google_service_account.function[each.value[0]].member
}

# ---- files ---------------------------------------------------------------------------------------------------------

resource "google_project_iam_custom_role" "lister" {
  project     = var.project
  role_id     = "${replace(local.prefix, "-", "_")}_lister"
  title       = "${local.prefix}: names of objects"
  description = "List a bucket and ask where it is, without reading what is in it."
  permissions = ["storage.buckets.get", "storage.objects.list"]
}

resource "google_storage_bucket_iam_member" "lister" {
  for_each = { for pair in setproduct(var.buckets, keys(local.file_readers)) : "${pair[0]} ${pair[1]}" => pair }

  bucket = each.value[0]
  role   = google_project_iam_custom_role.lister.name
  member = local.file_readers[each.value[1]]
}

resource "google_storage_bucket_iam_member" "job_files" {
  for_each = { for pair in setproduct(var.buckets, keys(local.job_files)) : "${pair[0]} ${pair[1]}" => pair }

  bucket = each.value[0]
  role   = local.job_files[each.value[1]].role
  member = local.job_files[each.value[1]].member

  condition {
    title = "only-some-prefixes"
    expression = join(" || ", [
      for prefix in local.job_files[each.value[1]].prefixes :
      "resource.name.startsWith(\"projects/_/buckets/${each.value[0]}/objects/${prefix}\")"
    ])
  }
}

resource "google_storage_bucket_iam_member" "own_files" {
  for_each = local.own_files

  bucket = google_storage_bucket.own.name
  role   = each.value.role
  member = each.value.member

  condition {
    title      = "only-some-prefixes"
    expression = "resource.name.startsWith(\"projects/_/buckets/${google_storage_bucket.own.name}/objects/${each.value.prefix}\")"
  }
}

# ---- workers: whoever may submit a job runs code as this account ---------------------------------------------------

resource "google_service_account" "worker" {
  project      = var.project
  account_id   = "${local.account_stem}-worker"
  display_name = "tpufn: TPU workers of ${local.prefix}"
}

resource "google_storage_bucket_iam_member" "worker_reads" {
  for_each = toset(var.buckets)

  bucket = each.value
  role   = "roles/storage.objectViewer"
  member = google_service_account.worker.member
}

resource "google_secret_manager_secret_iam_member" "worker" {
  for_each = toset(var.worker_secrets)

  project   = var.project
  secret_id = each.value
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.worker.member
}

# ---- people --------------------------------------------------------------------------------------------------------

resource "google_project_iam_member" "viewing" {
  for_each = local.viewing

  project = var.project
  role    = "roles/datastore.viewer"
  member  = each.value

  condition {
    title      = local.in_database.title
    expression = local.in_database.expression
  }
}

# `tpufn status` says whether the ticks are paused or late.
resource "google_project_iam_member" "ticks_viewing" {
  for_each = local.viewing

  project = var.project
  role    = "roles/cloudscheduler.viewer"
  member  = each.value
}

# Cloud Scheduler has no IAM per job; its own role for this could also change and delete jobs.
resource "google_project_iam_custom_role" "ticks" {
  project     = var.project
  role_id     = "${replace(local.prefix, "-", "_")}_ticks"
  title       = "${local.prefix}: pause and resume ticks"
  description = "Pause, resume and start jobs of Cloud Scheduler."
  permissions = ["cloudscheduler.jobs.enable", "cloudscheduler.jobs.pause", "cloudscheduler.jobs.run"]
}

resource "google_project_iam_member" "operating" {
  for_each = {
    for pair in setproduct(local.operating, concat(
      ["roles/logging.viewer", "roles/tpu.viewer"],
      local.private ? ["roles/iap.tunnelResourceAccessor"] : [],
    )) : "${pair[0]} ${pair[1]}" => pair
  }

  project = var.project
  role    = each.value[1]
  member  = each.value[0]
}

resource "google_project_iam_member" "ticks" {
  for_each = local.operating

  project = var.project
  role    = google_project_iam_custom_role.ticks.name
  member  = each.value
}

resource "google_pubsub_subscription_iam_member" "dead_letters" {
  for_each = local.operating

  project      = var.project
  subscription = google_pubsub_subscription.dead_letters.name
  role         = "roles/pubsub.subscriber"
  member       = each.value
}

# ---- builds --------------------------------------------------------------------------------------------------------
# An account of its own: the default one of Cloud Build may do far more, or nothing, depending on the project's age.

resource "google_service_account" "build" {
  project      = var.project
  account_id   = "${local.account_stem}-build"
  display_name = "tpufn: builds the functions of ${local.prefix}"
}

resource "google_project_iam_member" "build_logs" {
  project = var.project
  role    = "roles/logging.logWriter"
  member  = google_service_account.build.member
}

# Cloud Functions copies every source into a bucket of its own, and builds from there.
resource "google_project_iam_member" "build_sources" {
  project = var.project
  role    = "roles/storage.objectViewer"
  member  = google_service_account.build.member

  condition {
    title      = "only-function-sources"
    expression = "resource.name.startsWith(\"projects/_/buckets/gcf-v2-sources-${data.google_project.this.number}-${var.region}/\")"
  }
}

resource "google_artifact_registry_repository_iam_member" "build" {
  project    = var.project
  location   = var.region
  repository = google_artifact_registry_repository.images.repository_id
  role       = "roles/artifactregistry.writer"
  member     = google_service_account.build.member
}

# ---- Google's own agents -------------------------------------------------------------------------------------------

# Eventarc gets it when its API is enabled; said here, it also comes back where somebody removed it.
resource "google_project_iam_member" "eventarc_agent" {
  project = var.project
  role    = "roles/eventarc.serviceAgent"
  member  = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-eventarc.iam.gserviceaccount.com"

  depends_on = [google_project_service.api]
}
