output "uri" {
  description = "Where it is called."
  value       = local.uri
}
