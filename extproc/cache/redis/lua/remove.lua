-- ARGV: life of the number of removals, and entries. Returns the number of deleted entries.
redis.call('HINCRBY', index, 'n', 1)
extend(index, tonumber(ARGV[3]))
local n = 0
for i = 4, #ARGV do n = n + redis.call('EXISTS', P..'b:'..T..':'..ARGV[i]) * drop(T, ARGV[i]) end
return n
