case "one of the many" {
  request { session = 1 }
  server "old" { sessions = 5 }
  server "new" { labels = { canary = "yes" } }
  expect = ["old"]
}

case "nobody but the canary" {
  request { session = 1 }
  server "new" { labels = { canary = "yes" } }
  server "newer" {
    labels   = { canary = "yes" }
    sessions = 1
  }
  expect = ["new", "newer"]
}
