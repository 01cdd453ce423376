# Varnish as the benchmarks run it. @NAMES@ are filled in by benchmarks/servers/varnish.py; nothing else differs from run to run.
# It is meant to be Varnish at its best: objects in malloc storage, no log written to a file, no request to the origin
# while hits are timed. It checks no signature and no grant.

vcl 4.1;

backend origin {
    .host = "127.0.0.1";
    .port = "@ORIGIN@";
}

sub vcl_recv {
    unset req.http.Cookie;
    return (hash);
}

sub vcl_backend_response {
    set beresp.ttl = 24h;
    set beresp.do_stream = false;
    unset beresp.http.Vary;
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache-Status = "HIT";
    } else {
        set resp.http.X-Cache-Status = "MISS";
    }
}
