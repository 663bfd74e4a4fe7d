case "ours first, whatever their load" {
  server "far" { labels = { rack = "r2" } }
  server "near" {
    labels   = { rack = "r1" }
    sessions = 40
  }
  server "unlabelled" {}
  expect = ["near", "far", "unlabelled"]
}

case "ours are in the built-in order" {
  server "full" {
    labels   = { rack = "r1" }
    sessions = 9
  }
  server "far" { labels = { rack = "r2" } }
  server "idle" { labels = { rack = "r1" } }
  expect = ["idle", "full", "far"]
}
