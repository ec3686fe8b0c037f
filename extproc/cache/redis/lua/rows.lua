-- ARGV: place. Returns epoch, removals, whether it is banned, and names and questions.
local key = P..'q:'..T..':'..ARGV[3]
local f = redis.call('HMGET', index, 'e', 'n')
local out = {f[1] or '1', f[2] or '0', redis.call('HEXISTS', key, '!')}
if out[3] == 0 then
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if redis.call('HEXISTS', index, all[i]) == 1 then
      out[#out + 1] = all[i]
      out[#out + 1] = all[i + 1]
    end
  end
end
return out
