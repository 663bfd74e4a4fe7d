# The history of EOS over archives, and the tip on live nodes, as one node.
# Clients read from block 2 to the tip and see no seams.

admin { address = "127.0.0.1:9090" }

listener "ship" "eos" {
  address  = "0.0.0.0:17000"
  chain_id = "aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906" # archives have to be of this chain

  stitching {
    history_preference = "frozen" # keep readers of old blocks off the live nodes
    predial_blocks     = 2000     # connect to the next server so many blocks ahead
    gap_wait           = "1m"     # how long a client waits for archives that are down or full
  }

  # A block that an archive failed at twice is not asked of it for a while.
  quarantine {
    strikes = 2
    ttl     = "10m"
  }

  # Two replicas of each range, on separate hosts. end is the first block that
  # the archive does not have.
  server "archive-1a" {
    endpoint     = "10.0.3.10:8080"
    role         = "frozen"
    range        = { begin = 2, end = 200000001 }
    max_sessions = 32
  }
  server "archive-1b" {
    endpoint     = "10.0.3.11:8080"
    role         = "frozen"
    range        = { begin = 2, end = 200000001 }
    max_sessions = 32
  }

  # Ends with the block of the snapshot that the live nodes were started from.
  server "archive-2a" {
    endpoint     = "10.0.3.20:8080"
    role         = "frozen"
    range        = { begin = 200000001, end = 400000001 }
    max_sessions = 32
  }
  server "archive-2b" {
    endpoint     = "10.0.3.21:8080"
    role         = "frozen"
    range        = { begin = 200000001, end = 400000001 }
    max_sessions = 32
  }

  server "live-1" { endpoint = "10.0.1.10:8080" }
  server "live-2" { endpoint = "10.0.1.11:8080" }
}
