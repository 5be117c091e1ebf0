-- Clicks of a web site, enriched with its users, counted by minute and by session. docs/clickstream.md says where each
-- statement comes from. The keys of the codes are JSON here, so that a line of text can have one.

CREATE STREAM clickstream (
    _time BIGINT,
    time VARCHAR,
    ip VARCHAR,
    request VARCHAR,
    status INT,
    userid INT,
    bytes BIGINT,
    agent VARCHAR
  ) WITH (KAFKA_TOPIC='clickstream', VALUE_FORMAT='JSON');

CREATE TABLE clickstream_codes (
    code INT PRIMARY KEY,
    definition VARCHAR
  ) WITH (KAFKA_TOPIC='clickstream_codes', KEY_FORMAT='JSON', VALUE_FORMAT='JSON');

CREATE TABLE web_users (
    user_id VARCHAR PRIMARY KEY,
    registered_At BIGINT,
    username VARCHAR,
    first_name VARCHAR,
    last_name VARCHAR,
    city VARCHAR,
    level VARCHAR
  ) WITH (KAFKA_TOPIC='clickstream_users', VALUE_FORMAT='JSON');

CREATE TABLE events_per_min AS
  SELECT
    userid AS k1,
    AS_VALUE(userid) AS userid,
    WINDOWSTART AS EVENT_TS,
    COUNT(*) AS events
  FROM clickstream WINDOW TUMBLING (SIZE 60 SECONDS)
  GROUP BY userid
  EMIT CHANGES;

CREATE TABLE errors_per_min_alert WITH (KAFKA_TOPIC='errors-per-min-alert') AS
  SELECT
    status AS k1,
    AS_VALUE(status) AS status,
    WINDOWSTART AS EVENT_TS,
    COUNT(*) AS errors
  FROM clickstream WINDOW HOPPING (SIZE 60 SECONDS, ADVANCE BY 20 SECONDS)
  WHERE status > 400
  GROUP BY status
  HAVING COUNT(*) > 5 AND COUNT(*) IS NOT NULL
  EMIT CHANGES;

CREATE STREAM user_clickstream AS
  SELECT
    u.user_id,
    c.userid,
    u.username,
    ip,
    u.city,
    request,
    status,
    bytes
  FROM clickstream c
  LEFT JOIN web_users u ON CAST(c.userid AS VARCHAR) = u.user_id
  EMIT CHANGES;

CREATE STREAM enriched_error_codes AS
  SELECT
    status AS code,
    definition
  FROM clickstream
  LEFT JOIN clickstream_codes ON clickstream.status = clickstream_codes.code
  EMIT CHANGES;

CREATE TABLE user_ip_activity WITH (KEY_FORMAT='JSON') AS
  SELECT
    username AS k1,
    ip AS k2,
    city AS k3,
    AS_VALUE(username) AS username,
    WINDOWSTART AS EVENT_TS,
    AS_VALUE(ip) AS ip,
    AS_VALUE(city) AS city,
    COUNT(*) AS count
  FROM user_clickstream WINDOW TUMBLING (SIZE 60 SECONDS)
  GROUP BY username, ip, city
  HAVING COUNT(*) > 1
  EMIT CHANGES;

CREATE TABLE enriched_error_codes_count AS
  SELECT
    code AS k1,
    definition AS k2,
    AS_VALUE(code) AS code,
    WINDOWSTART AS EVENT_TS,
    AS_VALUE(definition) AS definition,
    COUNT(*) AS count
  FROM enriched_error_codes WINDOW TUMBLING (SIZE 30 SECONDS)
  GROUP BY code, definition
  HAVING COUNT(*) > 1
  EMIT CHANGES;

CREATE TABLE click_user_sessions AS
  SELECT
    username AS k,
    AS_VALUE(username) AS username,
    WINDOWEND AS EVENT_TS,
    COUNT(*) AS events
  FROM user_clickstream WINDOW SESSION (300 SECONDS)
  GROUP BY username
  EMIT CHANGES;
