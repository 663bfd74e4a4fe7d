# Sample configuration of flotilla. All fields: docs/configuration.md
# After editing: flotilla config test FILE

# Health, readiness and metrics over plain HTTP. Keep it on loopback, or behind
# something that checks who asks.
admin {
  address = "127.0.0.1:9090"
}

# One client port in front of the nodes of one chain.
listener "ship" "default" {
  address = "0.0.0.0:17000"

  # Pin the chain, so that nodes of another one stay offline. This is EOS:
  # chain_id = "aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906"

  server "ship-1" {
    endpoint = "127.0.0.1:18080"
  }

  server "ship-2" {
    endpoint = "127.0.0.1:28080" # wss://host:port for a node behind TLS
    # priority = 1               # used only while those with a lower one cannot serve
  }

  # An archive serves a fixed range of old blocks. It needs chain_id above.
  # server "archive-1" {
  #   endpoint = "127.0.0.1:38080"
  #   role     = "frozen"
  #   range    = { begin = 2, end = 50000001 }
  # }
}
