"""The files people write and the messages services send: reading, validating, and turning them into domain values.

Every problem is found in one pass and reported with file, line, key, cause and fix. Nothing here talks to a cloud.
This is the only part of the core that imports pydantic, so import it late.

    yaml_source   a YAML file as plain data that remembers its lines      problems    key paths, reports, "did you mean"
    scalars       the single values: text, durations, zones, buckets      checked     a pydantic model against a source
    job_model     the keys of job.yaml            jobs          one job file       regions     buckets and their regions
    fleet_model   the keys of deployment.yaml     deployment    one deployment     submission  the message for `submit`
    gitignore     git's ignore rules              tree, tarball, bundle            the source tree as one archive
    environment   what a job's command sees       messages, schema, reference      JSON Schemas and the written guide
"""
