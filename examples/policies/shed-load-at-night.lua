-- From 22:00 to 06:00 UTC the servers labelled night = "backup" are busy with
-- their backups: they get clients only when nobody else can serve.
local from, to = 22, 6

local function night()
  local hour = math.floor(now() / 3600) % 24
  return hour >= from or hour < to
end

function score(request, server)
  if server.labels.night == "backup" and night() then return 0 end
  return 1
end
