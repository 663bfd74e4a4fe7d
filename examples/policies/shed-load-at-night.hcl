case "nothing but the night counts" {
  server "a" { labels = { night = "backup" } }
  expect = ["a"]
}
