# Two nodes of one chain behind one port: if one fails, the other goes on.
admin { address = "127.0.0.1:9090" }

listener "ship" "eos" {
  address  = "0.0.0.0:17000"
  chain_id = "aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906"

  server "ship-1" { endpoint = "10.0.1.10:8080" }
  server "ship-2" { endpoint = "10.0.1.11:8080" }
}
