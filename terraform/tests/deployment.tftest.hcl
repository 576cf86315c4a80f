# Run by `terraform test`, on a mocked provider: what only an apply shows. The rest is asserted on plans, in Python.

mock_provider "google" {
  mock_data "google_project" {
    defaults = { number = "123456789012" }
  }
  mock_resource "google_cloudfunctions2_function" {
    defaults = {
      service_config = {
        uri     = "https://function.example.run.app"
        service = "projects/p/locations/l/services/function"
      }
    }
  }
}

variables {
  name    = "lab"
  project = "my-project"

  # Any file is an archive to a mocked provider.
  archives = {
    assign        = "README.md"
    autoscale     = "README.md"
    capacity_race = "README.md"
    control       = "README.md"
    execute       = "README.md"
    idle_teardown = "README.md"
    notify        = "README.md"
    preemption    = "README.md"
    submit        = "README.md"
  }
  indexes_file = "tests/indexes.json"

  buckets        = ["data"]
  worker_secrets = ["wandb-key"]
  submitters     = ["user:ada@example.org"]
  operators      = ["user:ada@example.org"]
}

run "everything_can_be_made_at_once" {
  command = apply

  assert {
    condition     = length(output.functions) == 9
    error_message = "Nine functions."
  }
  assert {
    condition     = toset(output.ticks.jobs) == toset(["tpufn-lab-tick", "tpufn-lab-sweep"])
    error_message = "Two ticks."
  }
  assert {
    condition     = output.database == "tpufn-lab" && output.bucket == "my-project-tpufn-lab"
    error_message = "Named after the deployment."
  }
}

run "one_person_twice_is_one_person" {
  command = plan

  assert {
    condition     = length(google_project_iam_member.viewing) == 1
    error_message = "Who is in two lists has each role once."
  }
}

run "an_unlisted_function_is_refused" {
  command = plan

  variables {
    archives = { submit = "README.md" }
  }

  expect_failures = [var.archives]
}
