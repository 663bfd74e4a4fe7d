-- Readers of a lot of history get the servers labelled use = "history", and
-- nobody else does: they neither disturb clients at the tip, nor are disturbed.
local many = 1000000

local function heavy(request, head)
  return request.block ~= nil and math.min(request.end_block, head) - request.block > many
end

function select(request, servers)
  local head = 0
  for _, s in ipairs(servers) do head = math.max(head, s.head) end
  local wanted = heavy(request, head)
  local picked = {}
  for _, s in ipairs(servers) do
    if (s.labels.use == "history") == wanted then picked[#picked + 1] = s end
  end
  -- When none of them can serve, any other is better than nobody.
  if #picked == 0 then return servers end
  return picked
end
