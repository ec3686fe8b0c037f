-- ARGV: entry, tag of the caller's copy. Returns epoch, removals, and 0 (there is none), 1 (the copy is the same) or 2 and the entry.
local name, tag = ARGV[3], ARGV[4]
local f = redis.call('HMGET', index, 'e', 'n', name)
local epoch, removals = f[1] or '1', f[2] or '0'
if not f[3] then return {epoch, removals, 0, ''} end
local key = P..'b:'..T..':'..name
local has = redis.call('GETRANGE', key, 0, 15)
if #has < 16 then return {epoch, removals, 0, ''} end
redis.call('ZADD', recent, 'XX', use, name)
if has == tag then return {epoch, removals, 1, ''} end
return {epoch, removals, 2, redis.call('GET', key)}
