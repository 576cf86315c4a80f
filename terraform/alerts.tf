# What should wake a person: undelivered messages, ticks that do not come, jobs that do not move, money.

locals {
  alerts = var.alerts != null

  # Functions log one JSON object a line, see entry.py.
  autoscale_logs = join(" AND ", [
    "resource.type=\"cloud_run_revision\"",
    "resource.labels.service_name=\"${local.prefix}-autoscale\"",
    "jsonPayload.function=\"autoscale\"",
  ])
  log_metrics = {
    ticks = { filter = "${local.autoscale_logs} AND jsonPayload.event=\"Tick\" AND severity<ERROR", about = "Ticks that ended well" }
    stuck = { filter = "${local.autoscale_logs} AND jsonPayload.message=~\"[0-9]+ stuck\"", about = "Ticks that found a job which does not move, though it was woken" }
  }
}

resource "google_logging_metric" "functions" {
  for_each = { for name, metric in local.log_metrics : name => metric if local.alerts }

  project     = var.project
  name        = "${local.prefix}-${each.key}"
  description = each.value.about
  filter      = each.value.filter

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }

  depends_on = [google_project_service.api]
}

resource "google_monitoring_alert_policy" "dead_letters" {
  count = local.alerts ? 1 : 0

  project               = var.project
  display_name          = "${local.prefix}: dead letters"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = var.alerts.channels

  conditions {
    display_name = "messages that no function could take"
    condition_threshold {
      filter          = "metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" AND resource.type=\"pubsub_subscription\" AND resource.labels.subscription_id=\"${google_pubsub_subscription.dead_letters.name}\""
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"
      aggregations {
        alignment_period   = "60s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = "`tpufn dead-letters list` shows them with their cause; `tpufn dead-letters replay` sends them again."
  }
}

resource "google_monitoring_alert_policy" "late_ticks" {
  count = local.alerts ? 1 : 0

  project               = var.project
  display_name          = "${local.prefix}: no ticks"
  combiner              = "OR"
  severity              = "CRITICAL"
  notification_channels = var.alerts.channels

  conditions {
    display_name = "no tick ended well for five minutes"
    condition_absent {
      filter   = "metric.type=\"logging.googleapis.com/user/${google_logging_metric.functions["ticks"].name}\" AND resource.type=\"cloud_run_revision\""
      duration = "300s"
      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    content = "TPUs may be left running. `tpufn status` says whether the ticks are paused (`tpufn resume`); else look at the logs of ${local.prefix}-autoscale."
  }
}

resource "google_monitoring_alert_policy" "stuck_jobs" {
  count = local.alerts ? 1 : 0

  project               = var.project
  display_name          = "${local.prefix}: stuck jobs"
  combiner              = "OR"
  severity              = "WARNING"
  notification_channels = var.alerts.channels

  conditions {
    display_name = "jobs did not move in spite of several wakes"
    condition_threshold {
      filter          = "metric.type=\"logging.googleapis.com/user/${google_logging_metric.functions["stuck"].name}\" AND resource.type=\"cloud_run_revision\""
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "600s"
      aggregations {
        alignment_period     = "300s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    content = "`tpufn jobs` lists them, `tpufn why JOB` says what each waits for."
  }
}

resource "google_billing_budget" "project" {
  count = var.budget == null ? 0 : 1

  billing_account = var.budget.billing_account
  display_name    = "${local.prefix}: ${var.project}"

  budget_filter {
    projects = ["projects/${data.google_project.this.number}"]
  }
  amount {
    specified_amount {
      currency_code = var.budget.currency
      units         = tostring(floor(var.budget.amount))
    }
  }

  dynamic "threshold_rules" {
    for_each = [0.5, 0.9, 1.0]
    content {
      threshold_percent = threshold_rules.value
    }
  }

  dynamic "all_updates_rule" {
    for_each = local.alerts ? [true] : []
    content {
      monitoring_notification_channels = var.alerts.channels
    }
  }

  depends_on = [google_project_service.api]
}
