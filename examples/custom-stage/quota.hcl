# A listener whose clients may have 100,000 blocks a minute.
listener "ship" "eos" {
  address  = "0.0.0.0:17000"
  chain_id = "aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906"

  stage "quota" {
    after  = "dedup"
    blocks = 100000
    per    = "1m"
  }

  server "ship-1" { endpoint = "10.0.1.10:8080" }
}
