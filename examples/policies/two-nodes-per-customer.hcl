case "a customer" {
  request { headers = { X-Customer = "acme" } }
  server "a" {}
  server "b" { sessions = 1 }
  server "c" { sessions = 2 }
  server "d" { sessions = 3 }
  expect = ["a", "b"]
}

case "one server is left" {
  request { client = "10.0.0.9" }
  server "a" {}
  expect = ["a"]
}
