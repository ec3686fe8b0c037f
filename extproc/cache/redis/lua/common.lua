-- What all scripts begin with. ARGV[1] is the prefix of every key, ARGV[2] the tenant's name.
--
--   i:TENANT        hash: e the epoch, n the number of removals, a the encrypted account, and for each entry NAME size|PLACE|heading
--   r:TENANT        sorted set: NAME by the time of its last use, in microseconds
--   u:TENANT        hash: H hits, M misses, S saved; and for each entry NAME its hits
--   b:TENANT:NAME   string: the entry; Redis deletes it when it is too old
--   q:TENANT:PLACE  hash: NAME its question, at most four; ! if nothing is compared there
--   sizes, total    bytes by tenant, and of all
--   until           tenants by the time at which what is stored of them has expired
local P, T = ARGV[1], ARGV[2]
local index, recent, used = P..'i:'..T, P..'r:'..T, P..'u:'..T

-- Now in milliseconds, and in microseconds for the order of uses.
local t = redis.call('TIME')
local now, use = t[1] * 1000 + math.floor(t[2] / 1000), t[1] * 1000000 + t[2]

-- extend makes a key live for at least that many milliseconds.
local function extend(key, life)
  if redis.call('PTTL', key) < life then redis.call('PEXPIRE', key, life) end
end

local function grow(t, n)
  if tonumber(redis.call('ZINCRBY', P..'sizes', n, t)) <= 0 then redis.call('ZREM', P..'sizes', t) end
  redis.call('INCRBY', P..'total', n)
end

-- drop deletes an entry with its companions, and returns the number of deleted entries.
local function drop(t, name)
  redis.call('ZREM', P..'r:'..t, name)
  local v = redis.call('HGET', P..'i:'..t, name)
  if not v then return 0 end
  local size, place = string.match(v, '^(%d+)|(%x*)|')
  redis.call('HDEL', P..'i:'..t, name)
  redis.call('HDEL', P..'u:'..t, name)
  redis.call('DEL', P..'b:'..t..':'..name)
  if place ~= '' then redis.call('HDEL', P..'q:'..t..':'..place, name) end
  grow(t, -tonumber(size))
  return 1
end

-- sweep drops those of the tenant's least recently used entries that have expired in Redis.
local function sweep(most)
  for _, name in ipairs(redis.call('ZRANGE', recent, 0, most - 1)) do
    if redis.call('EXISTS', P..'b:'..T..':'..name) == 0 then drop(T, name) end
  end
end

local hour = 3600000
