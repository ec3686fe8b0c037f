-- ARGV: entry, life of the ban. Ends the comparison at the place of an entry's question.
local v = redis.call('HGET', index, ARGV[3])
if not v then return 0 end
local _, place = string.match(v, '^(%d+)|(%x*)|')
if place == '' then return 0 end
local q = P..'q:'..T..':'..place
redis.call('DEL', q)
redis.call('HSET', q, '!', 1)
redis.call('PEXPIRE', q, tonumber(ARGV[4]))
return 1
