-- ARGV: entry, place, question. The question replaces the same one without a vector, if that still exists.
local key = P..'q:'..T..':'..ARGV[4]
if redis.call('HEXISTS', key, ARGV[3]) == 0 then return 0 end
redis.call('HSET', key, ARGV[3], ARGV[5])
return 1
