# A client port with TLS. Clients connect to wss://eos.example.com:17443.
# CERTS is the folder of the certificates: CERTS=/etc/flotilla flotilla run ...

locals {
  certs = env("CERTS")
}

listener "ship" "eos" {
  address  = "0.0.0.0:17443"
  chain_id = "aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906"

  # Renewed files are taken up while it runs.
  tls {
    cert_file = "${local.certs}/default.crt"
    key_file  = "${local.certs}/default.key"

    # Another certificate for clients that ask for one of these names.
    sni {
      server_names = ["ship.example.org", "*.ship.example.org"]
      cert_file    = "${local.certs}/example.org.crt"
      key_file     = "${local.certs}/example.org.key"
    }
  }

  # Certificates of servers are checked against the trust store of the system,
  # or against SSL_CERT_FILE and SSL_CERT_DIR.
  server "ship-1" {
    endpoint = "wss://ship-1.internal:8443"
  }

  server "ship-2" {
    endpoint = "10.0.1.11:8080"
  }
}
