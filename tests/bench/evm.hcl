# flotilla in front of the mock nodes of evm.sh: small answers, and large ones.

listener "evm" "small" {
  address = "127.0.0.1:28545"
  health {
    readmit   = "0s"
    subscribe = false # The mock nodes have no WebSocket.
  }
  server "a" { endpoint = "http://127.0.9.1:8545" }
  server "b" { endpoint = "http://127.0.9.2:8545" }
}

listener "evm" "large" {
  address = "127.0.0.1:28546"
  health {
    readmit   = "0s"
    subscribe = false
  }
  server "a" { endpoint = "http://127.0.9.3:8545" }
  server "b" { endpoint = "http://127.0.9.4:8545" }
}
