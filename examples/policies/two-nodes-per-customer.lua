-- Keep the clients of one customer on two nodes: what they do to a node, they do
-- to themselves. The customer is in a header, or else it is the address. Needs
-- headers = ["x-customer"] in the policy block.
function select(request, servers)
  local customer = request.headers["x-customer"] or request.client
  local rank = {}
  for _, s in ipairs(servers) do rank[s] = hash(customer .. " " .. s.name) end
  table.sort(servers, function(a, b) return rank[a] > rank[b] end)
  local two = { servers[1], servers[2] }
  table.sort(two, function(a, b) return a.sessions * b.weight < b.sessions * a.weight end)
  return two
end
