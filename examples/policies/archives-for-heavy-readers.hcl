case "all of history" {
  request { start_block = 2 }
  server "tip" { head = 9000000 }
  server "history" {
    head     = 9000000
    labels   = { use = "history" }
    sessions = 50
  }
  expect = ["history"]
}

case "a part of history" {
  request {
    start_block = 2
    end_block   = 5000
  }
  server "tip" { head = 9000000 }
  server "history" {
    head   = 9000000
    labels = { use = "history" }
  }
  expect = ["tip"]
}

case "the tip" {
  request { start_block = 8999000 }
  server "tip" { head = 9000000 }
  server "history" {
    head   = 9000000
    labels = { use = "history" }
  }
  expect = ["tip"]
}

case "no request yet" {
  server "tip" { head = 9000000 }
  server "history" {
    head   = 9000000
    labels = { use = "history" }
  }
  expect = ["tip"]
}

case "none for history is there" {
  request { start_block = 2 }
  server "tip" { head = 9000000 }
  server "other" {
    head     = 9000000
    sessions = 1
  }
  expect = ["tip", "other"]
}
