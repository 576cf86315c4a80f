# What a deployment is made of, as tables; the resources below and in the other files follow from them.

locals {
  prefix = "tpufn-${var.name}"

  # Account ids have at most 30 characters. A longer name is cut, and told apart by a piece of its hash.
  short        = length(var.name) <= 13 ? var.name : "${trimsuffix(substr(var.name, 0, 8), "-")}-${substr(sha256(var.name), 0, 4)}"
  account_stem = "tpufn-${local.short}"
  database     = coalesce(var.database, local.prefix)
  bucket       = coalesce(var.bucket, "${replace(var.project, "/[.:]/", "-")}-${local.prefix}")
  private      = var.ssh_transport == "iap"
  pubsub_agent = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"

  # ---- functions -----------------------------------------------------------------------------------------------------
  # code         names the accounts: at most 7 characters
  # concurrency  events at once in an instance; more than one needs a whole cpu
  # instances    bounds how much contends for one document: what does not fit waits in its subscription
  # timeout      seconds; a handler itself stops at 240
  # `execute` holds 32 SSH connections at a time for each event.
  sizes = {
    assign        = { code = "assign", memory = "512Mi", cpu = "1", concurrency = 8, instances = 5, timeout = 120 }
    autoscale     = { code = "scale", memory = "512Mi", cpu = "1", concurrency = 1, instances = 3, timeout = 270 }
    capacity_race = { code = "race", memory = "512Mi", cpu = "1", concurrency = 8, instances = 5, timeout = 270 }
    control       = { code = "control", memory = "512Mi", cpu = "1", concurrency = 8, instances = 3, timeout = 120 }
    execute       = { code = "execute", memory = "1Gi", cpu = "1", concurrency = 4, instances = 20, timeout = 270 }
    idle_teardown = { code = "idle", memory = "512Mi", cpu = "1", concurrency = 1, instances = 2, timeout = 120 }
    notify        = { code = "notify", memory = "512Mi", cpu = "1", concurrency = 8, instances = 2, timeout = 60 }
    preemption    = { code = "preempt", memory = "512Mi", cpu = "1", concurrency = 4, instances = 5, timeout = 120 }
    submit        = { code = "submit", memory = "512Mi", cpu = "1", concurrency = 8, instances = 5, timeout = 120 }
  }

  # What wakes each: messages by a push subscription, documents by a Firestore trigger.
  woken_by = {
    assign        = { topics = ["wakes"], documents = ["jobs/{job}", "slots/{slot}"] }
    autoscale     = { topics = ["ticks", "worker-ready"], documents = [] }
    capacity_race = { topics = ["wakes"], documents = ["jobs/{job}", "slots/{slot}"] }
    control       = { topics = ["commands"], documents = [] }
    execute       = { topics = ["wakes", "worker-events"], documents = ["jobs/{job}/attempts/{attempt}"] }
    idle_teardown = { topics = ["ticks"], documents = [] }
    notify        = { topics = ["notices"], documents = [] }
    preemption    = { topics = ["preemptions"], documents = [] }
    submit        = { topics = ["submissions"], documents = [] }
  }

  # What they reach besides store and topics.
  # key    the SSH key: to log in, or to tell a new TPU whom to let in
  # ssh    workers: knows their host keys, and has a leg in the VPC when workers are private
  # tpu    TPUs: as "viewer", or as "admin" who makes and deletes them
  # files  what is below `jobs/` in the jobs' buckets: to "read", or also to "write"
  nothing = { key = false, ssh = false, tpu = "", files = "" }
  reach = {
    autoscale     = { key = true, ssh = true, tpu = "viewer", files = "" }
    capacity_race = { key = true, ssh = false, tpu = "admin", files = "" }
    control       = { key = false, ssh = false, tpu = "", files = "read" }
    execute       = { key = true, ssh = true, tpu = "viewer", files = "write" }
    preemption    = { key = true, ssh = true, tpu = "viewer", files = "read" }
  }

  functions = {
    for name, size in local.sizes : name => merge(size, local.woken_by[name], lookup(local.reach, name, local.nothing))
  }

  # ---- topics ------------------------------------------------------------------------------------------------------
  # retention  seconds that an undelivered message is kept; a tick is worthless when the next ones have come
  # attempts   deliveries until a message goes to the dead letters
  # backoff    the longest pause between them, in seconds
  topics = {
    submissions   = { retention = 604800, attempts = 20, backoff = 600 }
    commands      = { retention = 604800, attempts = 20, backoff = 600 }
    worker-events = { retention = 86400, attempts = 10, backoff = 120 }
    preemptions   = { retention = 86400, attempts = 10, backoff = 120 }
    worker-ready  = { retention = 86400, attempts = 10, backoff = 120 }
    wakes         = { retention = 86400, attempts = 10, backoff = 120 }
    ticks         = { retention = 600, attempts = 5, backoff = 60 }
    notices       = { retention = 604800, attempts = 10, backoff = 600 }
  }

  # Who gets which wakes, by the attribute `kind` (the entity's kind). What has none, such as a wake that a person
  # published by hand, goes to all: a function ignores what is not its business.
  wake_filters = {
    assign        = "attributes.kind = \"placement\" OR NOT attributes:kind"
    capacity_race = "NOT attributes.kind = \"attempt\""
    execute       = "attributes.kind = \"attempt\" OR NOT attributes:kind"
  }

  # ---- ticks -------------------------------------------------------------------------------------------------------
  # An idle deployment is looked at in full every ten minutes only, see `Tick` in the code.
  ticks = {
    tick  = { schedule = "* * * * *", body = { full = false }, about = "Compare what is with what should be" }
    sweep = { schedule = "*/10 * * * *", body = { full = true }, about = "The same, with a full listing of the cloud" }
  }
}

data "google_project" "this" {
  project_id = var.project
}

# ---- APIs ----------------------------------------------------------------------------------------------------------

resource "google_project_service" "api" {
  for_each = toset(concat(
    [
      "artifactregistry.googleapis.com",
      "cloudbuild.googleapis.com",
      "cloudfunctions.googleapis.com",
      "cloudscheduler.googleapis.com",
      "compute.googleapis.com",
      "eventarc.googleapis.com",
      "firestore.googleapis.com",
      "iam.googleapis.com",
      "iamcredentials.googleapis.com",
      "logging.googleapis.com",
      "pubsub.googleapis.com",
      "run.googleapis.com",
      "secretmanager.googleapis.com",
      "storage.googleapis.com",
      "tpu.googleapis.com",
    ],
    local.private ? ["iap.googleapis.com"] : [],
    var.alerts == null ? [] : ["monitoring.googleapis.com"],
    var.budget == null ? [] : ["billingbudgets.googleapis.com"],
  ))

  project            = var.project
  service            = each.value
  disable_on_destroy = false # others in the project may use it
}

# ---- topics and ticks ----------------------------------------------------------------------------------------------

module "topic" {
  source   = "./modules/topic"
  for_each = setunion(keys(local.topics), ["dead-letters"])

  project = var.project
  name    = "${local.prefix}-${each.value}"
  publishers = merge(
    { for who, topics in local.publishers : who => local.members[who] if contains(topics, each.value) },
    each.value == "dead-letters" ? { pubsub-agent = local.pubsub_agent } : {},
  )

  depends_on = [google_project_service.api]
}

# Whatever could not be delivered, or not be read, stays here until somebody looks: `tpufn dead-letters list|replay`.
resource "google_pubsub_subscription" "dead_letters" {
  project = var.project
  name    = "${local.prefix}-dead-letters"
  topic   = module.topic["dead-letters"].id

  message_retention_duration = "2678400s" # 31 days, the longest there is
  ack_deadline_seconds       = 60

  expiration_policy {
    ttl = "" # never
  }
}

resource "google_cloud_scheduler_job" "tick" {
  for_each = local.ticks

  project     = var.project
  region      = var.region
  name        = "${local.prefix}-${each.key}"
  description = each.value.about
  schedule    = each.value.schedule
  time_zone   = "Etc/UTC"

  pubsub_target {
    topic_name = module.topic["ticks"].id
    data       = base64encode(jsonencode(each.value.body))
  }

  lifecycle {
    ignore_changes = [paused] # `tpufn pause` may be on while somebody applies
  }

  depends_on = [google_project_service.api]
}

# ---- functions -----------------------------------------------------------------------------------------------------

module "function" {
  source   = "./modules/function"
  for_each = local.functions

  project       = var.project
  region        = var.region
  prefix        = local.prefix
  account_stem  = local.account_stem
  name          = each.key
  settings      = each.value
  runtime       = var.runtime
  account       = google_service_account.function[each.key].email
  archive       = var.archives[each.key]
  bucket        = google_storage_bucket.own.name
  repository    = google_artifact_registry_repository.images.id
  build_account = google_service_account.build.name
  pubsub_agent  = local.pubsub_agent

  environment = {
    TPUFN_NAME           = var.name
    TPUFN_PROJECT        = var.project
    TPUFN_REGION         = var.region
    TPUFN_DATABASE       = local.database
    TPUFN_BUCKET         = google_storage_bucket.own.name
    TPUFN_SSH_SECRET     = google_secret_manager_secret.ssh_key.secret_id
    TPUFN_SSH_TRANSPORT  = var.ssh_transport
    TPUFN_WORKER_ACCOUNT = google_service_account.worker.email
  }

  database          = local.database
  database_location = var.database_location

  subscriptions = {
    for topic in each.value.topics : topic => merge(local.topics[topic], {
      topic  = module.topic[topic].id
      filter = topic == "wakes" ? local.wake_filters[each.key] : ""
    })
  }
  dead_letters = module.topic["dead-letters"].id

  vpc = local.private && each.value.ssh ? { network = local.network, subnetwork = local.functions_subnetwork } : null

  # Built by the build account's rights and in the database's location: all of it has to be there first.
  depends_on = [
    google_project_service.api,
    google_project_iam_member.build_logs,
    google_project_iam_member.build_sources,
    google_artifact_registry_repository_iam_member.build,
    google_project_iam_member.eventarc_agent,
    google_firestore_database.this,
  ]
}
