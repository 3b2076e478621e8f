def test_x(site):
    assert site("GET", "/v1/clock").status == 200
    assert site("GET", "/openapi.json").status == 200
    assert site("GET", "/docs").status == 200
    assert site("GET", "/v1/clock", role=None).status == 401

def test_p(process):
    p, site = process
    assert site("GET", "/v1/clock").status == 200
    assert p.stop() == -15
    assert "Traceback" not in p.log.read_text()
