-- ARGV: most entries. Returns epoch, number of entries, bytes, hits, misses, saved, and size|PLACE|heading and hits of each entry, most recently used first.
sweep(1000)
local u = redis.call('HMGET', used, 'H', 'M', 'S')
local out = {redis.call('HGET', index, 'e') or '1', redis.call('ZCARD', recent), redis.call('ZSCORE', P..'sizes', T) or '0', u[1] or '0', u[2] or '0', u[3] or '0'}
for _, name in ipairs(redis.call('ZREVRANGE', recent, 0, tonumber(ARGV[3]) - 1)) do
  local v = redis.call('HGET', index, name)
  if v then
    out[#out + 1] = v
    out[#out + 1] = redis.call('HGET', used, name) or '0'
  end
end
return out
