-- Replaces a value, if it is what the caller read. KEYS[1]: the value. ARGV: 1 if the caller read one, else 0; what it read; the next value; its life in milliseconds.
local now = redis.call('GET', KEYS[1])
if (ARGV[1] == '1' and now == ARGV[2]) or (ARGV[1] == '0' and not now) then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
  return {1, false}
end
return {0, now}
