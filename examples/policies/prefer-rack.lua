-- Prefer the servers in our rack; the others are spares. Servers say where they
-- are in their labels: labels = { rack = "r1" }.
local ours = "r1"

function score(request, server)
  if server.labels.rack == ours then return 1 end
  return 0
end
