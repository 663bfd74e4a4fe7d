# Several chains in one process, each with a port and a fleet of its own. EOS
# has its history in archives; WAX is a pool with a spare node.

shutdown_grace = "10s"

admin {
  address = "127.0.0.1:9090"
}

# What all listeners share. A listener may set any of it for itself.
defaults {
  max_connections = 500
  idle_timeout    = "10m"
  client_buffer   = "32MiB"
}

listener "ship" "eos" {
  address  = "0.0.0.0:17000"
  chain_id = "aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906"

  # Leave a node out for a block that it failed at twice.
  quarantine {
    strikes = 2
    ttl     = "10m"
  }

  server "archive-1" {
    endpoint     = "10.0.3.10:8080"
    role         = "frozen"
    range        = { begin = 2, end = 200000001 }
    max_sessions = 32
  }

  server "archive-2" {
    endpoint = "10.0.3.11:8080"
    role     = "frozen"
    range    = { begin = 200000001, end = 400000001 }
  }

  server "live-1" {
    endpoint = "10.0.1.10:8080"
  }

  server "live-2" {
    endpoint = "10.0.1.11:8080"
  }
}

listener "ship" "wax" {
  address         = "0.0.0.0:17001"
  chain_id        = "1064487b3cd1a897ce03ae5b6a865651747e2e152090f99c1d19d44e01aea5a4"
  max_connections = 50

  # Gets two thirds of the sessions.
  server "wax-1" {
    endpoint = "10.0.2.10:8080"
    weight   = 2
  }

  server "wax-2" {
    endpoint = "10.0.2.11:8080"
  }

  # Used only while neither of the others can serve.
  server "wax-spare" {
    endpoint = "wss://ship.example.com:443/wax"
    priority = 1
  }
}
