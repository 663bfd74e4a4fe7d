-- A new node, labelled canary = "yes", gets five percent of the sessions; the
-- others do not see it. Raise the share as you come to trust it.
local percent = 5

function select(request, servers)
  local chosen = hash("canary " .. request.session) % 100 < percent
  local canary, others = {}, {}
  for _, s in ipairs(servers) do
    local list = s.labels.canary == "yes" and canary or others
    list[#list + 1] = s
  end
  if #others == 0 then return canary end
  if not chosen then return others end
  counter("canary_sessions")
  for _, s in ipairs(others) do canary[#canary + 1] = s end
  return canary
end
