"""What would happen: a deployment file and a workload, played through the real decisions on a virtual clock.

workload   jobs.yaml, as single jobs or as a rate       capacity   what the cloud is believed to have
play       the simulation itself                        tally      what came of it, in numbers
page       the same as a page with charts
"""
