-- ARGV: life of the counters, hits, misses, saved, and entries and their hits.
redis.call('HINCRBY', used, 'H', ARGV[4])
redis.call('HINCRBY', used, 'M', ARGV[5])
redis.call('HINCRBY', used, 'S', ARGV[6])
extend(used, tonumber(ARGV[3]))
for i = 7, #ARGV, 2 do
  if redis.call('HEXISTS', index, ARGV[i]) == 1 then redis.call('HINCRBY', used, ARGV[i], ARGV[i + 1]) end
end
return 1
