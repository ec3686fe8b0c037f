-- ARGV: entry, epoch, life, size, body, heading, place, question, life of the question, bytes of all entries, the encrypted account. Lives are in milliseconds.
-- Returns whether the entry was stored.
local name, epoch, life, size, body, heading, place, question, asked, max =
  ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9], ARGV[10], tonumber(ARGV[11]), tonumber(ARGV[12])
if (redis.call('HGET', index, 'e') or '1') ~= epoch then return 0 end
drop(T, name)
local q = P..'q:'..T..':'..place
if place ~= '' and redis.call('HEXISTS', q, '!') == 1 then place = '' end
redis.call('SET', P..'b:'..T..':'..name, body, 'PX', life)
redis.call('HSETNX', index, 'a', ARGV[13])
redis.call('HSET', index, name, string.format('%d', size)..'|'..place..'|'..heading)
redis.call('ZADD', recent, use, name)
grow(T, size)
if place ~= '' then
  redis.call('HSET', q, name, question)
  extend(q, asked)
  local names = redis.call('HKEYS', q)
  if #names > 4 then
    local oldest, at
    for _, n in ipairs(names) do
      local s = tonumber(redis.call('ZSCORE', recent, n) or 0)
      if n ~= name and (not at or s < at) then oldest, at = n, s end
    end
    redis.call('HDEL', q, oldest)
  end
end
for _, key in ipairs({index, recent, used}) do extend(key, life + hour) end
local before = tonumber(redis.call('ZSCORE', P..'until', T) or 0)
redis.call('ZADD', P..'until', math.max(before, now + life + hour), T)

sweep(8)
for _, t in ipairs(redis.call('ZRANGEBYSCORE', P..'until', '-inf', now, 'LIMIT', 0, 8)) do
  redis.call('ZREM', P..'until', t)
  local left = redis.call('ZSCORE', P..'sizes', t)
  if left then grow(t, -tonumber(left)) end
end

-- The least recently used entry of the largest tenant is evicted first. A call evicts at most 1,024; the next one continues.
for _ = 1, 1024 do
  if tonumber(redis.call('GET', P..'total') or 0) <= max then break end
  local t = redis.call('ZREVRANGE', P..'sizes', 0, 0)[1]
  if not t then
    redis.call('DEL', P..'total')
    break
  end
  local oldest = redis.call('ZRANGE', P..'r:'..t, 0, 0)[1]
  if oldest then
    drop(t, oldest)
  else
    grow(t, -tonumber(redis.call('ZSCORE', P..'sizes', t)))
  end
end
return redis.call('EXISTS', P..'b:'..T..':'..name)
