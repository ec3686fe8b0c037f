-- ARGV: life of the epoch, whether it is the first call. The first call begins an epoch; each deletes up to 1,000 entries. Returns the epoch, and the numbers
-- of entries deleted and left.
if ARGV[4] == '1' then
  redis.call('HSETNX', index, 'e', 1)
  redis.call('HINCRBY', index, 'e', 1)
  redis.call('HINCRBY', index, 'n', 1)
end
extend(index, tonumber(ARGV[3]))
local n = 0
for _, name in ipairs(redis.call('ZRANGE', recent, 0, 999)) do n = n + redis.call('EXISTS', P..'b:'..T..':'..name) * drop(T, name) end
return {redis.call('HGET', index, 'e'), n, redis.call('ZCARD', recent)}
