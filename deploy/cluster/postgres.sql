-- The role and the database of several Legwork servers. Run it as a superuser of PostgreSQL 13 or newer.
-- A server opens up to 24 connections. The limit has room for two servers during a rolling upgrade.
CREATE ROLE legwork LOGIN PASSWORD 'change-me-1' CONNECTION LIMIT 100;
CREATE DATABASE legwork OWNER legwork ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE legwork FROM PUBLIC;
