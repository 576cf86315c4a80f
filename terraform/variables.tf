# ---- the deployment --------------------------------------------------------------------------------------------------

variable "name" {
  description = "The deployment's name, `name` in deployment.yaml. Several deployments can share a project."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]+(-[a-z0-9]+)*$", var.name))
    error_message = "Lowercase letters and digits, joined by single hyphens."
  }

  # The tightest limits: 49 characters for the Cloud Run service behind `tpufn-NAME-capacity-race`, and 63 for the
  # bucket `PROJECT-tpufn-NAME` with a project id of 30. Accounts (30 characters) are shortened, see main.tf.
  validation {
    condition     = length(var.name) <= 26
    error_message = "At most 26 characters: it is part of every cloud name."
  }
}

variable "project" {
  description = "The project's id."
  type        = string
}

variable "region" {
  description = "Where functions and ticks run, `controller_region` in deployment.yaml."
  type        = string
  default     = "us-central1"

  # Firestore tells of changes in the database's location only; functions far from it would pay for every read in time.
  validation {
    condition = startswith(var.region, lookup(
      { nam5 = "us-", nam7 = "us-", eur3 = "europe-" }, var.database_location, var.database_location
    ))
    error_message = "Functions run where their database is: us-* with nam5 or nam7, europe-* with eur3, else the same region as database_location."
  }
}

variable "archives" {
  description = "The source archive of each function, as `tpufn package` writes them: {function = path of a .zip}."
  type        = map(string)

  validation {
    condition = toset(keys(var.archives)) == toset([
      "assign", "autoscale", "capacity_race", "control", "execute", "idle_teardown", "notify", "preemption", "submit",
    ])
    error_message = "One archive for each function, and none besides: `tpufn package --out DIR` writes them."
  }
}

variable "runtime" {
  description = "The functions' language runtime."
  type        = string
  default     = "python312"
}

variable "delete_protection" {
  description = "Whether the database and the deployment's bucket outlive `terraform destroy`."
  type        = bool
  default     = true
}

# ---- store -----------------------------------------------------------------------------------------------------------

variable "database" {
  description = "An existing Firestore database (native mode); by default `tpufn-NAME` is made."
  type        = string
  default     = ""

  validation {
    condition     = var.database == "" || can(regex("^[a-z][a-z0-9-]{2,61}[a-z0-9]$", var.database))
    error_message = "4 to 63 lowercase letters, digits and hyphens. The database (default) cannot be shared."
  }
}

variable "database_location" {
  description = "The database's location, `firestore_location` in deployment.yaml. Also of an existing one."
  type        = string
  default     = "nam5"
}

variable "indexes_file" {
  description = "The composite indexes and field settings; by default the list that ships with the code."
  type        = string
  default     = ""
}

variable "bucket" {
  description = "The name of the deployment's own bucket; `PROJECT-tpufn-NAME` by default. It is made here."
  type        = string
  default     = ""
}

# ---- workers ---------------------------------------------------------------------------------------------------------

variable "buckets" {
  description = "The buckets of jobs, without gs://: workers read all of them and write below `jobs/` and writable_prefixes. They need uniform bucket-level access."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for bucket in var.buckets : can(regex("^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$", bucket))])
    error_message = "Bare names of buckets, without gs:// and without a path."
  }
  validation {
    condition     = !contains(var.buckets, coalesce(var.bucket, "${var.project}-tpufn-${var.name}"))
    error_message = "The deployment's own bucket is not for jobs: workers must not be able to change what functions run."
  }
}

variable "writable_prefixes" {
  description = "Where workers may write in these buckets, besides `jobs/`: results/ and the like."
  type        = list(string)
  default     = []

  # They end up inside quotes in a condition: a quote in them would be a way out of it.
  validation {
    condition     = alltrue([for prefix in var.writable_prefixes : can(regex("^[A-Za-z0-9][A-Za-z0-9._/-]*/$", prefix))])
    error_message = "A path in a bucket that ends in a slash, such as results/."
  }
}

variable "worker_secrets" {
  description = "Existing secrets in this project that jobs may ask for; workers read them."
  type        = list(string)
  default     = []
}

variable "existing_tpus" {
  description = "Whether the deployment uses TPUs that were there before (`existing`): the runner's key goes into their metadata."
  type        = bool
  default     = false
}

variable "ssh_transport" {
  description = "How functions reach workers: `direct` by public addresses, `iap` by private ones (and people through IAP)."
  type        = string
  default     = "direct"

  validation {
    condition     = contains(["direct", "iap"], var.ssh_transport)
    error_message = "Either direct or iap."
  }
}

# ---- network ---------------------------------------------------------------------------------------------------------

variable "network" {
  description = "The existing VPC network of the TPUs."
  type        = string
  default     = "default"
}

variable "functions_subnetwork" {
  description = "With iap: the subnetwork in `region`, /26 or larger, from which functions reach private workers."
  type        = string
  default     = "default"
}

variable "subnet_ranges" {
  description = "Makes an own network `tpufn-NAME` with a subnetwork of the same name in each region: {region = CIDR}. Empty: the existing one is used."
  type        = map(string)
  default     = {}

  validation {
    condition     = length(var.subnet_ranges) == 0 || contains(keys(var.subnet_ranges), var.region)
    error_message = "An own network needs a range for the functions' region, too."
  }
  validation {
    condition     = alltrue([for range in values(var.subnet_ranges) : can(cidrhost(range, 0))])
    error_message = "CIDR ranges such as 10.10.0.0/20."
  }
}

variable "nat" {
  description = "In an own network: Cloud NAT in each region, so that private workers reach the internet (pip install)."
  type        = bool
  default     = false
}

variable "ssh_source_ranges" {
  description = "Further addresses that may open SSH connections to the TPUs' network. Functions have no fixed public address: an own network with `direct` needs 0.0.0.0/0 here, where the key is the only guard."
  type        = list(string)
  default     = []

  validation {
    condition     = length(var.subnet_ranges) == 0 || var.ssh_transport == "iap" || length(var.ssh_source_ranges) > 0
    error_message = "An own network lets nobody in: say which addresses may use SSH, or choose ssh_transport = \"iap\"."
  }
}

# ---- people ----------------------------------------------------------------------------------------------------------

variable "viewers" {
  description = "Who may see jobs, slots and logs: [\"user:ada@example.org\", \"group:lab@example.org\"]."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for member in var.viewers : can(regex("^(user|group|domain|serviceAccount|principal|principalSet):.+", member))])
    error_message = "Members with their kind in front: user:, group:, domain:, serviceAccount:, principal: or principalSet:."
  }
}

variable "submitters" {
  description = "Who may submit jobs and give commands. They can run any code as the workers' account."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for member in var.submitters : can(regex("^(user|group|domain|serviceAccount|principal|principalSet):.+", member))])
    error_message = "Members with their kind in front: user:, group:, domain:, serviceAccount:, principal: or principalSet:."
  }
}

variable "operators" {
  description = "Who may also pause the ticks, replay dead letters, read the functions' logs and log in to TPUs."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for member in var.operators : can(regex("^(user|group|domain|serviceAccount|principal|principalSet):.+", member))])
    error_message = "Members with their kind in front: user:, group:, domain:, serviceAccount:, principal: or principalSet:."
  }
}

# ---- alarms ----------------------------------------------------------------------------------------------------------

variable "alerts" {
  description = "Makes alerts on dead letters, late ticks and stuck jobs, for these notification channels (full names). Null: none."
  type        = object({ channels = list(string) })
  default     = null
}

variable "budget" {
  description = "Makes a monthly budget of the whole project with mails at 50, 90 and 100 %. Null: none."
  type        = object({ billing_account = string, amount = number, currency = optional(string, "USD") })
  default     = null
}
